# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: may change at any time.
"""Documentation of the options in _kubernetes/argspec.py."""

from __future__ import annotations


class ModuleDocFragment:
    """Access to clusters; READER for modules that gather information; OWNER for modules that also write."""

    DOCUMENTATION = r"""
requirements:
  - urllib3 (Python library, 1.26 or newer)
  - certifi (Python library)
  - kubernetes (Python library, 25 or newer), only where a kubeconfig has C(exec) or C(auth-provider)
  - PyYAML, to read a kubeconfig file
options:
  clusters:
    description:
      - The clusters, each with the access to its API server.
      - Only what is given here is used. There is no default kubeconfig, and the credentials of a pod that Ansible happens to
        run in are never taken.
      - One exception is the environment that C(kubernetes.core) and AWX know. Where there is one cluster, and nothing of its access is given
        here, not even an empty text, it is taken from C(K8S_AUTH_KUBECONFIG), C(K8S_AUTH_CONTEXT), C(K8S_AUTH_HOST), C(K8S_AUTH_API_KEY),
        C(K8S_AUTH_SSL_CA_CERT), C(K8S_AUTH_CERT_FILE), C(K8S_AUTH_KEY_FILE), C(K8S_AUTH_PROXY), C(K8S_AUTH_VERIFY_SSL) and
        C(K8S_AUTH_IMPERSONATE_USER). These speak of one cluster, so they count for none of several.
      - Give O(clusters[].kubeconfig), or O(clusters[].api_url) with a credential. Options alongside a kubeconfig win over what
        is in it.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Name of the cluster.
        type: str
        required: true
      kubeconfig:
        description:
          - Path of a kubeconfig on the host that runs the module, several paths as a list or with a colon between them, or its content as a dictionary.
          - It may hold an address, a CA, and a token or a client certificate. Anything beyond is refused unless
            O(clusters[].allow) names it.
        type: raw
      context:
        description: Context of the kubeconfig. The default is its C(current-context).
        type: str
      api_url:
        description: URL of the API server.
        type: str
        aliases: [host]
      token:
        description: Bearer token.
        type: str
        aliases: [api_key]
      token_file:
        description: File with the bearer token. It is read at every run.
        type: path
      ca_cert:
        description: File with the CA certificates of the API server. Without any CA the system's are used.
        type: path
        aliases: [ssl_ca_cert]
      ca_data:
        description: CA certificates of the API server, in PEM.
        type: str
      ca_url:
        description: An https URL of the CA certificates. It is refused without O(clusters[].ca_sha256).
        type: str
      ca_sha256:
        description: SHA-256 of the bytes that O(clusters[].ca_url) answers, in hexadecimal digits.
        type: str
      client_cert:
        description: File with a client certificate.
        type: path
        aliases: [cert_file]
      client_key:
        description: File with the key of O(clusters[].client_cert).
        type: path
        aliases: [key_file]
      proxy_url:
        description: Proxy on the way to the API server. C(HTTPS_PROXY) and its like are not used.
        type: str
        aliases: [proxy]
      tls_server_name:
        description: Name to verify the API server's certificate against, when it differs from the one in the URL.
        type: str
      impersonate_user:
        description: User to act as.
        type: str
      validate_certs:
        description: V(false) also needs V(insecure_tls) in O(clusters[].allow).
        type: bool
        aliases: [verify_ssl]
        default: true
      read_limit_mib:
        description:
          - How many MiB one list of objects of this cluster may have, all its pages together. All lists of a task may have four times as
            much. Objects need many times their length in memory, and those of one list may need four times as many MiB, those of all
            lists of a task eight times as many.
          - What passes a bound is given up before it is decoded, and the cluster counts as not read. The default is 256.
        type: int
      allow:
        description:
          - What is refused otherwise. V(exec) and V(auth_provider) let the kubeconfig run programs on this host,
            V(file_references) lets it read files, V(impersonation), V(insecure_tls), V(proxy) and V(tls_server_name) let it
            set what these words say, and V(plain_http) sends the credential in clear text.
        type: list
        elements: str
        choices: [auth_provider, exec, file_references, impersonation, insecure_tls, plain_http, proxy, tls_server_name]
        default: []
  timeout:
    description: Seconds for everything that is read from one cluster. Clusters are read side by side.
    type: float
    default: 120
"""

    # Of modules with action plugins that take the clusters from the inventory; named before the other one, since it changes options of that.
    INVENTORY = r"""
options:
  clusters:
    required: false
  clusters_group:
    description: Group of the clusters' hosts in the inventory, with their access as variables, where O(clusters) is not given.
    type: str
    default: clusters
"""

    LOST_PAIRS = r"""
options:
  max_lost_pairs:
    description:
      - How many pairs of a cluster and a Service, or a set of pods, of another cluster one run may take apart although that one could still answer.
        A negative number is any.
      - A run that would take more fails before its first write, and names their classes. Check mode shows them.
    type: int
    default: 0
  confirm_lost:
    description: Names of classes that may be lost, as the run shows them.
    type: list
    elements: str
    default: []
"""

    READER = r"""
options:
  fail_on_failures:
    description: Whether the task fails when a cluster could not be read.
    type: bool
    default: true
"""

    OWNER = r"""
options:
  fabric:
    description: Name of the fabric. Everything is written, and known again, by the field manager C(multicluster.network/FABRIC).
    type: str
    required: true
  adopt:
    description: >-
      Take over what another field manager wrote under a desired name. From then on we are the only one on record as its owner, and this option is not
      needed any more. Without it such things are refused and stay.
    type: bool
    default: false
  max_deletes:
    description:
      - How much one run may remove of each cluster and kind. 0 means none, a negative number any. O(state=absent) knows no limit.
      - The default is the larger of 5 and 20 % of what this fabric owns.
    type: int
  confirm_empty:
    description: Clusters of which it is right that nothing is desired any more.
    type: list
    elements: str
    default: []
  leave_conflicts:
    description: >-
      An owned field that somebody else changed, and that this run does not put right, is a failure of its cluster. With this
      it is refused as V(conflict) instead.
    type: bool
    default: false
  fail_on_failures:
    description: >-
      Whether the task fails when a cluster could not be read or written. The other clusters are always finished first,
      and the result lists RV(failures) either way.
    type: bool
    default: true
attributes:
  diff_mode:
    description: Shows the changed fields of every changed object. Values of Secrets appear as fingerprints.
    support: full
"""
