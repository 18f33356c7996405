"""One session with flamia-lsp-server: hover in a good document, open a bad one, print the answers."""
import json
import subprocess


def message(**fields):
    body = json.dumps({"jsonrpc": "2.0", **fields})
    return f"Content-Length: {len(body)}\r\n\r\n{body}"


good = """flamia.kernel @k(%x: memref<?xf32>) parameters {} grid(1) {
  %d = flamia.dim %x[0] : memref<?xf32>
  flamia.return
}
"""
bad = good.replace("flamia.dim %x[0]", "flamia.dim %x")


def opened(uri, text):
    return message(method="textDocument/didOpen", params={"textDocument": {
        "uri": uri, "languageId": "mlir", "version": 1, "text": text}})


session = (message(id=0, method="initialize", params={"processId": None, "rootUri": None, "capabilities": {}})
           + opened("test:///good.mlir", good)
           + message(id=2, method="textDocument/hover", params={
               "textDocument": {"uri": "test:///good.mlir"}, "position": {"line": 1, "character": 8}})
           + opened("test:///bad.mlir", bad)
           + message(id=1, method="shutdown") + message(method="exit"))
result = subprocess.run(["flamia-lsp-server"], input=session, capture_output=True, text=True, timeout=60)
print(result.stdout)
print("exit code", result.returncode)
