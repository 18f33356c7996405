"""Runs a program until it writes a line on stderr, prints that and stops it.

    first_words.py COMMAND...

Fails if the program ends by itself, as one would that speaks after its work, or says nothing
for ten minutes.
"""
import subprocess
import sys
import threading

process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
patience = threading.Timer(600, process.kill)
patience.start()
line = process.stderr.readline()
patience.cancel()
ended = process.poll()
process.kill()
process.wait()
print(line, end="")
sys.exit(not line or ended is not None)
