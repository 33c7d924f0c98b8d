"""
The plans whose certificates Coq has checked, by the digest of the certificate: name and version.

Written by `make proofs`, which checks every certificate first; never by hand.
"""

CERTIFIED: dict[str, str] = {
    "e0c7862d8387a0c94524c30439e3e863f1f924806f8588c90cbc2d8703dd786e": "tool-usage 1",
    "5d74fc9b11be33e2d2de7ba1023a132f98515ebe7ae90048cf72be1e78353cc8": "app-usage 1",
    "3914f3a603712fe990523269d0f1e7111df88d1241cb110f2ee770de3659b819": "saves 1",
    "90e618b89532b1ee26462beda2a6dbfc1a624c7b812d76690ad7f0af1a11e520": "windows-deployment 1",
    "a8ba492a72f43125727541ac78b57dd182db56675bbf3d3ab640c87b07650123": "d-bit-flip-demo 1",
    "1b5cbb5be87767580ee55435b6459c5260d0c965cbeb07b0d201f0c1f0f97542": "groups-demo 1",
    "a44f04e1c89af3a9cf6becf8ad3c06bc9780300682ba8f1106edcb9a28b77341": "sampled-group-demo 1",
    "28a742f4703c0a9a9f1dae6d2d2f2cdccc2947f54100d92755f78c00a0f9eed4": "sampled-demo 1",
}
