"""Cosserat rods: strains on a basis, sections, segments of a Magnus integration, tendons and chambers."""
