"""URDF import."""


def load_urdf(path):
    raise NotImplementedError
