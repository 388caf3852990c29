"""Checks hardening and health checks of every service in docker-compose.yml: python3 hardened.py CONFIG.json (of `docker compose config --format json`)."""

import json
import re
import sys

wrong = []
for name, service in sorted(json.load(open(sys.argv[1]))["services"].items()):
    for port in service.get("ports", []):
        if port.get("host_ip") != "127.0.0.1":
            wrong.append(f"{name}: port {port['published']} is not bound to 127.0.0.1")
    if service.get("ports") and not service.get("healthcheck", {}).get("test"):
        wrong.append(f"{name}: has ports and no health check")
    if service.get("cap_drop") != ["ALL"] or service.get("cap_add"):
        wrong.append(f"{name}: keeps capabilities")
    if "no-new-privileges:true" not in service.get("security_opt", []):
        wrong.append(f"{name}: may gain privileges")
    if service.get("privileged") or service.get("network_mode") == "host":
        wrong.append(f"{name}: is not apart from the machine")
    if not re.search(r":[^:/]*[0-9][^:/]*$|:local$", service["image"]):
        wrong.append(f"{name}: image {service['image']} is not pinned")
    # The Kafka image writes its settings next to its binaries.
    if not service.get("read_only") and name != "kafka":
        wrong.append(f"{name}: its root can be written to")
for line in wrong:
    print(line, file=sys.stderr)
sys.exit(bool(wrong))
