"""Hashes models (see model.ts) with the Python reference of digital-asset/canton.

Usage: reference.py FOLDER, where FOLDER is its community/app/src/pack/examples/08-interactive-submission. Reads lines of
{"scheme": "V2", "model": {...}} and writes a hash for each. The reference wants classes that are generated from protobuf definitions; it
only reads attributes and asks HasField, which plain objects can do as well.
"""

import json
import sys
import types

BYTES = {"seed", "hash", "event_blob"}
NUMBERS = {
    "int64", "timestamp", "created_at", "preparation_time",
    "min_ledger_effective_time", "max_ledger_effective_time", "max_record_time",
}  # fmt: skip
DEFAULTS = {"by_key": False, "children": [], "choice_observers": [], "elements": [], "entries": [], "fields": []}


class Message:
    def __init__(self, fields):
        self._fields = fields

    def HasField(self, name):
        return name in self._fields

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return self._fields.get(name, DEFAULTS.get(name))


def convert(value, name=""):
    # A text map has an entry named "key", which is a text there and a message elsewhere.
    if isinstance(value, dict):
        return Message({field: convert(inner, field) for field, inner in value.items()})
    if isinstance(value, list):
        return [convert(inner) for inner in value]
    if name in BYTES:
        return bytes.fromhex(value)
    return int(value) if name in NUMBERS else value


def stub_generated_code():
    name = "com.daml.ledger.api.v2.interactive.interactive_submission_service_pb2"
    module = types.ModuleType(name)
    module.DamlTransaction = types.SimpleNamespace(NodeSeed=object)
    module.PreparedTransaction = module.HashingSchemeVersion = types.SimpleNamespace(
        HASHING_SCHEME_VERSION_V2=2, HASHING_SCHEME_VERSION_V3=3
    )
    parts = name.split(".")
    for end in range(1, len(parts)):
        sys.modules.setdefault(".".join(parts[:end]), types.ModuleType(".".join(parts[:end])))
    sys.modules[name] = module
    for end in range(2, len(parts) + 1):
        setattr(sys.modules[".".join(parts[: end - 1])], parts[end - 1], sys.modules[".".join(parts[:end])])


def main():
    stub_generated_code()
    sys.path.insert(0, sys.argv[1])
    sys.dont_write_bytecode = True
    import daml_transaction_hashing_common as common
    import daml_transaction_hashing_v2 as v2
    import daml_transaction_hashing_v3 as v3

    for line in sys.stdin:
        case = json.loads(line)
        prepared = convert(case["model"])
        scheme = {"V2": v2, "V3": v3}[case["scheme"]]
        print(scheme.encode_prepared_transaction(prepared, common.create_nodes_dict(prepared)).hex())


main()
