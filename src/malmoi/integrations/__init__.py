"""Adapters to other libraries. Each file needs its library and is imported only when asked for."""
