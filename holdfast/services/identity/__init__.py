"""People whom an identity provider knows: OpenID Connect, for the API and for the dashboard."""
