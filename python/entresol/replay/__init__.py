"""The device alone: a block trace or a synthetic pattern on firmware and flash, without a host."""
