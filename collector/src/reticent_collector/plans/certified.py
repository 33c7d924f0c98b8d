"""
The plans whose certificates Coq has checked, by the digest of the certificate: name and version.

Written by `make proofs`, which checks every certificate first; never by hand.
"""

CERTIFIED: dict[str, str] = {
    "83569f858509dd9f62cad0f7456a0c95702b4be07aa7b5aa4c06331912d441a0": "tool-usage 1",
    "aeb5d0db31257b4b680ba9169087761694df5eb3d7573af21c92fda21a3f2eb4": "app-usage 1",
    "4121412e43b05fd769137fb2463a79ced4bd9fb6ee97b0d168663d8ab6ee9f5b": "command-line-sample 1",
    "2e731fd7c19dd9bc33a5274982319dcaf6fc48b406b40397ab34270bc3879f64": "desktop-sample 1",
    "be9b033892fd47053f02224ade9664f3bf546f63dd4ef98c5078e04ad0ed5a2b": "device-sample 1",
    "aabe21ad62cbb1a0e3ee1f7c83ae297592eb2e8e37031bf6e0d125d2e6309160": "mobile-sample 1",
    "357aaca9dc9e5dceff2adf386631d0c759ac80fcaf88ddfc9a2acdd30f09c197": "service-sample 1",
    "2e11a0b73e9f41bd54bf9863a6708ed8fd186f37c59a35169bdbce9d8236470d": "web-sample 1",
    "5c7befc22c359e8a57401961be6cb53c9532fc09f35c65ae4db773453f8a42bd": "saves 1",
    "38b9d6711bfad711e6309ec5fef03c90b2d79f14748d5c986bc84224cd822c8d": "windows-deployment 1",
    "1468b2fe26b6f674e2129d8be8e1310440961c65631100c97ea8702229ed5e0e": "windows-split 1",
    "01e8db90a0f86692c1efdabdad09bba0b2869a324b8255a53c73e92cc83f6b05": "d-bit-flip-demo 1",
    "60441d3401192112477358d81d424baff13dcdb7e77ed5edfdeabef3276fc267": "divided-demo 1",
    "fcc80ef13d8895b733634061aba3b5a2b49e466fa181a667b5f8fe4fea1cebee": "groups-demo 1",
    "ef34ebffb7039b2bc76650a0346285689d4e058f2878c1aa761535ed6a996540": "labels-demo 1",
    "4a43f976fd1fd90b33e197fe0efde7b04d31a37346f161d1093aca88064f8c89": "sampled-group-demo 1",
    "24fd23b0087927e413bc91fd368240b3e332144b44c905d3b57646ad72da6636": "sampled-unlike-demo 1",
    "398f8cbc41a24137513988408539ead820c77280bd82d9b78c14eb3a96f85146": "sampled-demo 1",
    "59df514acd3d32922e96019ed5a5b2e68531f734f8a357bf74efe42ca743f828": "split-demo 1",
}
