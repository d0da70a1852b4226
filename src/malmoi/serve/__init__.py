"""The server: HTTP API, batcher and page. FastAPI and uvicorn are imported when it is started."""
