"""
The plans whose certificates Coq has checked, by the digest of the certificate: name and version.

Written by `make proofs`, which checks every certificate first; never by hand.
"""

CERTIFIED: dict[str, str] = {
    "83569f858509dd9f62cad0f7456a0c95702b4be07aa7b5aa4c06331912d441a0": "tool-usage 1",
    "aeb5d0db31257b4b680ba9169087761694df5eb3d7573af21c92fda21a3f2eb4": "app-usage 1",
    "5c7befc22c359e8a57401961be6cb53c9532fc09f35c65ae4db773453f8a42bd": "saves 1",
    "38b9d6711bfad711e6309ec5fef03c90b2d79f14748d5c986bc84224cd822c8d": "windows-deployment 1",
    "01e8db90a0f86692c1efdabdad09bba0b2869a324b8255a53c73e92cc83f6b05": "d-bit-flip-demo 1",
    "60441d3401192112477358d81d424baff13dcdb7e77ed5edfdeabef3276fc267": "divided-demo 1",
    "fcc80ef13d8895b733634061aba3b5a2b49e466fa181a667b5f8fe4fea1cebee": "groups-demo 1",
    "4a43f976fd1fd90b33e197fe0efde7b04d31a37346f161d1093aca88064f8c89": "sampled-group-demo 1",
    "24fd23b0087927e413bc91fd368240b3e332144b44c905d3b57646ad72da6636": "sampled-unlike-demo 1",
    "398f8cbc41a24137513988408539ead820c77280bd82d9b78c14eb3a96f85146": "sampled-demo 1",
}
