"""The server: HTTP API, batcher and page. Starlette and uvicorn are imported when it is started.

A request takes one road: `server` reads it from its socket, `middleware` lets it in, a function of
`routes/` answers it with `engine`, which runs it in `batcher` together with others.
"""
