# The description of its answers is served by the protocol itself.
sluice_embed(sluice_protocol_http http openapi docs/openapi-http.json)
