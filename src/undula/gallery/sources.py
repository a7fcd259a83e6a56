"""The publications that the gallery cites, by the short names that its entries use."""

REFERENCES = {
    "Ali 2011": "S. Ali, Newton-Euler approach for bio-robotics locomotion dynamics: from discrete to continuous systems, "
    "thesis, Ecole des Mines de Nantes, 2011. tel-00669588",
    "Boyer & Belkhiri 2013": "F. Boyer, A. Belkhiri, Reduced locomotion dynamics with passive internal DoFs: application to "
    "non-holonomic and soft robotics, IEEE Transactions on Robotics, 2013. hal-00842093",
    "Gotelli 2024": "A. Gotelli, Dynamics modelling of continuum parallel robots, thesis, Ecole centrale de Nantes, 2024. "
    "tel-05351835",
    "Transeth et al. 2008": "A. A. Transeth, R. I. Leine, Ch. Glocker, K. Y. Pettersen, 3D snake robot motion: non-smooth "
    "modeling, simulations, and experiments, IEEE Transactions on Robotics 24(2), 2008",
    "Boyer et al. 2019": "F. Boyer, J. Mauny, M. Porez, Modélisation de la dynamique de la locomotion, Techniques de "
    "l'Ingénieur, 2019. hal-02552647",
    "Goswami et al. 1998": "A. Goswami, B. Thuilot, B. Espiau, A study of the passive gait of a compass-like biped robot: "
    "symmetry and chaos, International Journal of Robotics Research 17, 1998",
    "Greenhill 1881": "A. G. Greenhill, Determination of the greatest height consistent with stability that a vertical pole "
    "or mast can be made, Proceedings of the Cambridge Philosophical Society 4, 1881",
    "Greenhill 1883": "A. G. Greenhill, On the strength of shafting when exposed both to torsion and to end thrust, "
    "Proceedings of the Institution of Mechanical Engineers 34, 1883",
    "Leine et al. 2001": "R. I. Leine, Ch. Glocker, D. H. van Campen, Nonlinear dynamics of the woodpecker toy, ASME Design "
    "Engineering Technical Conferences, DETC2001/VIB-21608, 2001",
    "Meijaard et al. 2007": "J. P. Meijaard, J. M. Papadopoulos, A. Ruina, A. L. Schwab, Linearized dynamics equations for "
    "the balance and steer of a bicycle: a benchmark and review, Proceedings of the Royal Society A 463, 2007",
    "Ostrowski et al. 1994": "J. P. Ostrowski, A. Lewis, R. Murray, J. Burdick, Nonholonomic mechanics and locomotion: the "
    "snakeboard example, IEEE International Conference on Robotics and Automation, 1994",
    "Simo & Vu-Quoc 1988": "J. C. Simo, L. Vu-Quoc, On the dynamics in space of rods undergoing large motions: a "
    "geometrically exact approach, Computer Methods in Applied Mechanics and Engineering 66, 1988",
}


def cited(source: str) -> dict[str, str]:
    """The publications that the source of an entry names."""
    return {short: full for short, full in REFERENCES.items() if short in source}
