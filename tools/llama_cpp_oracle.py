"""llama-cpp-python as an independent oracle: logits of a GGUF, ggml's own quantisers and decoders.

Two independent programs that agree are worth more than one: transformers gives the reference
numbers, this one shows that the file itself was written and read as others do. Keys and values are
kept in float32; with float32 weights the two then differ only by rounding. Quantised weights make
llama.cpp quantise activations as well, so such files agree only roughly.
"""

import ctypes

import gguf
import llama_cpp
import numpy as np

F32 = 0


def _base_library():
    folder = next(iter(llama_cpp.__path__))
    return ctypes.CDLL(f"{folder}/lib/libggml-base.so")


def quantize(values, qtype):
    """uint8 [N, bytes] from float32 [N, K], with ggml's quantisers (gguf-py's where it has them)."""
    values = np.ascontiguousarray(values, dtype=np.float32)
    try:
        return gguf.quants.quantize(values, qtype)
    except NotImplementedError:
        pass
    rows, columns = values.shape
    block, size = gguf.GGML_QUANT_SIZES[qtype]
    out = np.zeros((rows, columns // block * size), dtype=np.uint8)
    function = getattr(_base_library(), f"quantize_{_suffix(qtype)}")
    function.restype = ctypes.c_size_t
    written = function(values.ctypes.data_as(ctypes.c_void_p), out.ctypes.data_as(ctypes.c_void_p),
                       ctypes.c_int64(rows), ctypes.c_int64(columns), None)
    assert written == out.nbytes, (qtype, written, out.nbytes)
    return out


def dequantize(data, qtype, shape):
    """float32 of raw blocks with ggml's C decoder; for checking gguf-py's."""
    data = np.ascontiguousarray(data).view(np.uint8).reshape(-1)
    out = np.zeros(shape, dtype=np.float32)
    function = getattr(_base_library(), f"dequantize_row_{_suffix(qtype)}")
    function.restype = None
    function(data.ctypes.data_as(ctypes.c_void_p), out.ctypes.data_as(ctypes.c_void_p), ctypes.c_int64(out.size))
    return out


def _suffix(qtype):
    name = qtype.name
    return name[:-1].lower() + "K" if name.endswith("_K") else name.lower()


def save_float32(source, path, tensors):
    """Copies a GGUF with all its metadata, its tensors replaced by float32 ones of the same names."""
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(path, reader.fields["general.architecture"].contents())
    for key, field in reader.fields.items():
        if key.startswith("GGUF.") or key == "general.architecture":
            continue
        kind = field.types[0]
        writer.add_key_value(key, field.contents(), kind,
                             field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None)
    for name, value in tensors.items():
        writer.add_tensor(name, value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


class Oracle:
    """A loaded GGUF. `logits(ids)` is float32 [T, V], one row after each token."""

    def __init__(self, path, positions, threads=1):
        self.model = llama_cpp.Llama(
            model_path=str(path), n_ctx=positions, n_batch=positions, n_ubatch=positions, logits_all=True,
            n_threads=threads, n_threads_batch=threads, type_k=F32, type_v=F32, flash_attn=False, verbose=False)
        self.vocab = llama_cpp.llama_model_get_vocab(self.model.model)

    def logits(self, ids):
        self.model.reset()
        self.model.eval([int(i) for i in ids])
        return np.array(self.model.scores[:len(ids)], dtype=np.float32)

    def tokenize(self, text, add_special, parse_special):
        data = text.encode("utf-8")
        room = len(data) + 16
        ids = (llama_cpp.llama_token * room)()
        count = llama_cpp.llama_tokenize(self.vocab, data, len(data), ids, room, add_special, parse_special)
        assert count >= 0
        return list(ids[:count])
