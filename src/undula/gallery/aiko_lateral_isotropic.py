"""Aiko by lateral undulation with the same friction in all directions: it goes slowly backward, with the body's wave."""

from undula.gallery import aiko
from undula.gallery.aiko_lateral import build

SCENARIO = aiko.entry(
    "aiko-lateral-isotropic",
    "The snake robot Aiko by lateral undulation, friction 0.2 in all directions: slowly backward",
    "Transeth et al. 2008, section VIII-D",
    build,
    amplitude_h=40 * aiko.DEGREE,
)
