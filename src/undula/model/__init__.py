"""Authoring (`Builder`) and computing (`System`)."""
