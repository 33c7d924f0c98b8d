"""
The plans whose certificates Coq has checked, by the digest of the certificate: name and version.

Written by `make proofs`, which checks every certificate first; never by hand.
"""

CERTIFIED: dict[str, str] = {
    "6028070badc493669e1d35c7a6c9b6c4c74ec9e2bbfbce8402741591c10fa94a": "tool-usage 1",
    "650c0c70dbd6510dfaac948d44d16568b3c0251edf88181bb6241de75c0c47ba": "app-usage 1",
    "4b6eb42259f1d9dafecbc91d035aae039d778a06a1ba5aebb0934af82b979f50": "saves 1",
    "40c114708463d1040b0b4c7219cac3da658d84e210623fa3b759af1c6afefbd1": "windows-deployment 1",
    "772ec48db1217d9fabd3a0585c37a6808407ebec914d0e817cd9f025780fea98": "d-bit-flip-demo 1",
    "f2e29064cb360916b3df5021842e3275389e7fb85180143f72f1c837ecddd9eb": "groups-demo 1",
    "7220c31e3a979f417d27edf6321dd81b15e214dad4ca043fa6746df0ec7bf545": "sampled-group-demo 1",
    "8a71a2b78b48309d9ebdf0a7fab380277633b819a94305e274e7a6145b5d8604": "sampled-demo 1",
}
