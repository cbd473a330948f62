"""Messages between processes: sockets, keys, addresses and the bytes on the wire."""
