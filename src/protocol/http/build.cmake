# The protocol itself serves the description of its answers.
sluice_embed(sluice_protocol_http http openapi docs/openapi-http.json)

# Sources of this folder that are in the client library.
list(APPEND sluice_client_sources src/protocol/http/client_dialect.cc src/protocol/http/client_json.cc)
