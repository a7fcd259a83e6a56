"""Geometry of locomotion: connections and what is reconstructed from them."""
