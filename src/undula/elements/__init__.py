"""The contracts of what is attached to a model: sites, views, elements, force models, row models."""
