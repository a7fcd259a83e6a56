"""Force models: gravity, springs, loads, tendons, controllers."""
