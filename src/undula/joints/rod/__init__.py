"""Cosserat rods as joints: bases, sections, Magnus pieces."""
