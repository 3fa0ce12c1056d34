"""Reading and writing GGUF version 3 with F32, F16 and Q8_0 tensors (numpy only)."""

import struct

import numpy as np

ALIGNMENT = 32
F32, F16, Q8_0 = 0, 1, 8
U32, I32, FLOAT, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
SCALARS = {U32: "<I", I32: "<i", FLOAT: "<f", BOOL: "<?"}


def quantize_q8_0(x):
    """Q8_0 bytes of an array whose last dimension is a multiple of 32."""
    blocks = x.astype(np.float32).reshape(-1, 32)
    d = np.abs(blocks).max(1) / 127
    inverse = np.where(d > 0, 1 / np.where(d > 0, d, 1), 0)
    q = blocks * inverse[:, None]
    q = np.trunc(q + np.copysign(0.5, q)).astype(np.int8)
    out = np.empty((len(blocks), 34), np.uint8)
    out[:, :2] = d.astype("<f2")[:, None].view(np.uint8)
    out[:, 2:] = q.view(np.uint8)
    return out.tobytes()


def dequantize_q8_0(data):
    """Float32 values of Q8_0 bytes."""
    blocks = np.frombuffer(data, np.uint8).reshape(-1, 34)
    d = blocks[:, :2].copy().view("<f2").astype(np.float32)
    return (d * blocks[:, 2:].view(np.int8).astype(np.float32)).reshape(-1)


def encode(array, kind):
    """Bytes of an array stored as the given tensor type."""
    if kind == Q8_0:
        return quantize_q8_0(array)
    return np.ascontiguousarray(array).astype("<f2" if kind == F16 else "<f4").tobytes()


def decode(data, kind):
    """Float32 values of tensor bytes."""
    if kind == Q8_0:
        return dequantize_q8_0(data)
    return np.frombuffer(data, "<f2" if kind == F16 else "<f4").astype(np.float32)


def size_of(count, kind):
    """Bytes of `count` values."""
    return count // 32 * 34 if kind == Q8_0 else count * (2 if kind == F16 else 4)


def padded(n):
    """The next multiple of the alignment."""
    return -(-n // ALIGNMENT) * ALIGNMENT


def pack_string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def pack_value(kind, value):
    if kind == STRING:
        return pack_string(value)
    return struct.pack(SCALARS[kind], value)


def write(path, metadata, tensors):
    """Write a file.

    metadata: list of (key, type, value), arrays as (key, (ARRAY, element type), values);
    tensors: list of (name, numpy array in row-major order, tensor type).
    """
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    for key, kind, value in metadata:
        head += pack_string(key)
        if isinstance(kind, tuple):
            head += struct.pack("<IIQ", ARRAY, kind[1], len(value))
            head += b"".join(pack_value(kind[1], v) for v in value)
        else:
            head += struct.pack("<I", kind) + pack_value(kind, value)
    data, offset = [], 0
    for name, array, kind in tensors:
        blob = encode(array, kind)
        dims = array.shape[::-1]
        head += pack_string(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, offset)
        data.append(blob + bytes(padded(len(blob)) - len(blob)))
        offset += len(data[-1])
    with open(path, "wb") as f:
        f.write(head + bytes(padded(len(head)) - len(head)))
        for blob in data:
            f.write(blob)


class Reader:
    """Metadata and tensors of a file."""

    def __init__(self, path):
        with open(path, "rb") as f:
            self.data = f.read()
        self.pos = 0
        magic, version, tensor_count, kv_count = self.take("<4sIQQ")
        if magic != b"GGUF" or version != 3:
            raise ValueError("not a GGUF file of version 3")
        self.metadata = {}
        for _ in range(kv_count):
            key = self.string()
            self.metadata[key] = self.value(*self.take("<I"))
        infos = []
        for _ in range(tensor_count):
            name = self.string()
            dims = self.take(f"<{self.take('<I')[0]}Q")
            infos.append((name, dims[::-1], *self.take("<IQ")))
        start = padded(self.pos)
        self.tensors, self.types = {}, {}
        for name, shape, kind, offset in infos:
            size = size_of(int(np.prod(shape)), kind)
            blob = self.data[start + offset:start + offset + size]
            self.tensors[name] = decode(blob, kind).reshape(shape)
            self.types[name] = kind

    def take(self, fmt):
        values = struct.unpack_from(fmt, self.data, self.pos)
        self.pos += struct.calcsize(fmt)
        return values

    def string(self):
        n, = self.take("<Q")
        self.pos += n
        return self.data[self.pos - n:self.pos].decode()

    def value(self, kind):
        if kind == STRING:
            return self.string()
        if kind == ARRAY:
            element, n = self.take("<IQ")
            return [self.value(element) for _ in range(n)]
        return self.take(SCALARS[kind])[0]
