"""Models: authoring (`Builder`) and computing (`System`)."""
