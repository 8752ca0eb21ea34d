"""Moves money between two accounts so that no power cut can lose or make any.

    .venv/bin/entresol device create ssd --preset cxl
    .venv/bin/entresol device serve ssd --shm unix:ssd.sock &
    .venv/bin/python examples/python/accounts.py ssd.sock

A transaction over two lines of a memory-semantic SSD, through the byte port; the same as
`examples/c/account.c`.
"""

from __future__ import annotations

import sys

from entresol.device import Device, connect

ALICE, BOB = 0, 4096


def balance(device: Device, account: int) -> int:
    return int.from_bytes(device.read(account, 8), "little")


def main(socket: str) -> None:
    with connect(socket) as device:
        device.write(ALICE, (100).to_bytes(8, "little"))
        device.write(BOB, (20).to_bytes(8, "little"))
        device.persist()
        print("before:", balance(device, ALICE), "and", balance(device, BOB))

        with device.transaction(lines=2) as tx:
            tx.write(ALICE, (70).to_bytes(8, "little"))
            tx.write(BOB, (50).to_bytes(8, "little"))
            tx.commit()
        print("after:", balance(device, ALICE), "and", balance(device, BOB))

        with device.transaction() as tx:
            tx.write(ALICE, bytes(8))
            # Not committed: aborted.
        print("aborted:", balance(device, ALICE), "and", balance(device, BOB))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: accounts.py SOCKET")
    main(sys.argv[1])
