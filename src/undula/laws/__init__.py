"""Laws of time: motions and efforts, splines, measured data."""
