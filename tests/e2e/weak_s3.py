# SPDX-License-Identifier: Apache-2.0
"""A store that speaks S3 and ignores every condition, as some look-alikes do."""
import http.server
import threading
import urllib.parse
from xml.sax.saxutils import escape


class WeakS3:
    """Objects in memory behind http://127.0.0.1; credentials are not looked at."""

    def __init__(self):
        self.objects: dict[str, bytes] = {}
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self.handler())
        self.endpoint = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def handler(weak):

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def answer(self, status: int, body: bytes = b"", etag: str | None = None):
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                if etag:
                    self.send_header("ETag", etag)
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            def do_PUT(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                weak.objects[self.path] = body
                self.answer(200, etag=f'"{hash(body):x}"')

            def do_DELETE(self):
                weak.objects.pop(self.path, None)
                self.answer(204)

            def do_GET(self):
                url = urllib.parse.urlsplit(self.path)
                if url.query:
                    return self.list(url)
                body = weak.objects.get(self.path)
                if body is None:
                    return self.answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
                if span := self.headers.get("Range"):
                    first, last = span.removeprefix("bytes=").split("-")
                    return self.answer(206, body[int(first):int(last) + 1])
                self.answer(200, body, f'"{hash(body):x}"')

            do_HEAD = do_GET

            def list(self, url):
                prefix = url.path + dict(urllib.parse.parse_qsl(url.query)).get("prefix", "")
                entries = "".join(
                    f"<Contents><Key>{escape(key.removeprefix(url.path))}</Key>"
                    f"<Size>{len(body)}</Size></Contents>"
                    for key, body in sorted(weak.objects.items()) if key.startswith(prefix))
                self.answer(200, f"<ListBucketResult>{entries}</ListBucketResult>".encode())

        return Handler
