"""The parts of the `undula` command: what comes in, what goes out, what is kept between runs."""
