"""Quadratures on [0, 1]."""

import numpy as np


def radau(count: int) -> tuple[np.ndarray, np.ndarray]:
    """(points, weights) of the Gauss-Radau rule with a point at 1: exact for polynomials of degree 2 count - 2."""
    from scipy.special import roots_jacobi

    inner, parts = roots_jacobi(count - 1, 1, 0) if count > 1 else (np.zeros(0), np.zeros(0))
    return np.append((1 + inner) / 2, 1.0), np.append(parts / (1 - inner) / 2, 1 / count**2)


def gauss(count: int) -> tuple[np.ndarray, np.ndarray]:
    """(points, weights) of the Gauss-Legendre rule."""
    x, w = np.polynomial.legendre.leggauss(count)
    return (1 + x) / 2, w / 2
