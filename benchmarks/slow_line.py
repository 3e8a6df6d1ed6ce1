"""A line of limited bandwidth and some delay between two addresses, for benchmarks of agents."""

from __future__ import annotations

import asyncio
import sys

DELAY, BANDWIDTH = 0.02, 12.5e6  # seconds one way, and bytes a second in either direction: 100 Mbit/s
PART = 2**15  # bytes carried together: 2.6 ms of the line
QUEUE = 0.05  # seconds of bytes that may wait for the line, as in a router


async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One direction. A part that comes while the line is busy waits for it: late timers cost nothing."""
    loop, free = asyncio.get_running_loop(), 0.0
    while part := await reader.read(PART):
        free = max(free, loop.time()) + len(part) / BANDWIDTH  # when the line has taken these bytes
        loop.call_at(free + DELAY, writer.write, part)
        if (ahead := free - loop.time()) > QUEUE:
            await asyncio.sleep(ahead - QUEUE / 2)
    loop.call_at(free + DELAY, writer.close)


async def serve(host: str, port: int, target: int) -> None:
    """Join each caller to another port of the host, for ever."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection(host, target)
        except OSError:  # the agent has not started yet
            writer.close()
            return
        await asyncio.gather(carry(reader, back), carry(there, writer))

    async with await asyncio.start_server(connected, host, port) as server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
