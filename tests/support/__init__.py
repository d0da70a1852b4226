"""What tests share: tiny models and graphs, training runs, servers, lexicons, fake models."""
