"""Row models: wheels, rolling bodies, closures, couplings, imposed motions, slip."""
