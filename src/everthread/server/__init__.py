"""The service: conversations over HTTP, server-sent events and WebSocket, for many users and from many processes.

It adds no logic of its own to a conversation: a route calls one verb of the library (`everthread.routes` is the table)
and writes what that gives as JSON (`everthread.wire`). What is its own is who may call (`identity`, `door`), how much
(`limits`), and how it runs (`serve`). Read `app` first, then `calls`.
"""
