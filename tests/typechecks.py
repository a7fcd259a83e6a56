"""The type checker used for the package in the tests: beartype, with int accepted where float is declared."""

from beartype import BeartypeConf, beartype

check = beartype(conf=BeartypeConf(is_pep484_tower=True))
