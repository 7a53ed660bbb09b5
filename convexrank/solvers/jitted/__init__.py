"""Methods whose whole iteration is one compiled loop, with the data on the device that is asked for."""
