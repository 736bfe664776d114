// Copyright (c) 2026, multicluster.network authors
// GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

// What MetalLB 0.13 makes of its custom resources: reads a list of objects, prints what its own parser found in them, or its error.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"

	"go.universe.tf/metallb/api/v1beta1"
	"go.universe.tf/metallb/api/v1beta2"
	"go.universe.tf/metallb/internal/config"
	corev1 "k8s.io/api/core/v1"
)

// strict refuses fields that the release does not know, as an API server does that was asked to.
func strict(raw []byte, into interface{}) error {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	return decoder.Decode(into)
}

func read() (config.ClusterResources, error) {
	found := config.ClusterResources{PasswordSecrets: map[string]corev1.Secret{}}
	var objects []json.RawMessage
	if err := json.NewDecoder(os.Stdin).Decode(&objects); err != nil {
		return found, err
	}
	for _, raw := range objects {
		var head struct{ Kind, APIVersion string }
		if err := json.Unmarshal(raw, &head); err != nil {
			return found, err
		}
		var err error
		switch head.APIVersion + " " + head.Kind {
		case "metallb.io/v1beta1 IPAddressPool":
			var one v1beta1.IPAddressPool
			err = strict(raw, &one)
			found.Pools = append(found.Pools, one)
		case "metallb.io/v1beta1 BGPAdvertisement":
			var one v1beta1.BGPAdvertisement
			err = strict(raw, &one)
			found.BGPAdvs = append(found.BGPAdvs, one)
		case "metallb.io/v1beta2 BGPPeer":
			var one v1beta2.BGPPeer
			err = strict(raw, &one)
			found.Peers = append(found.Peers, one)
		case "v1 Secret":
			var one corev1.Secret
			err = strict(raw, &one)
			found.PasswordSecrets[one.Name] = one
		case "v1 Node":
			var one corev1.Node
			err = strict(raw, &one)
			found.Nodes = append(found.Nodes, one)
		default:
			err = fmt.Errorf("MetalLB has no kind %s %s", head.APIVersion, head.Kind)
		}
		if err != nil {
			return found, err
		}
	}
	return found, nil
}

func main() {
	answer := map[string]interface{}{}
	objects, err := read()
	var parsed *config.Config
	if err == nil {
		parsed, err = config.For(objects, config.ValidationFor(os.Args[1]))
	}
	if err != nil {
		answer["error"] = err.Error()
	} else {
		pools, peers := map[string]interface{}{}, []interface{}{}
		for name, pool := range parsed.Pools {
			cidrs := []string{}
			for _, cidr := range pool.CIDR {
				cidrs = append(cidrs, cidr.String())
			}
			pools[name] = map[string]interface{}{
				"auto_assign": pool.AutoAssign, "addresses": cidrs, "advertisements": len(pool.BGPAdvertisements),
			}
		}
		for _, peer := range parsed.Peers {
			selectors := []string{}
			for _, selector := range peer.NodeSelectors {
				selectors = append(selectors, selector.String())
			}
			source := ""
			if peer.SrcAddr != nil {
				source = peer.SrcAddr.String()
			}
			peers = append(peers, map[string]interface{}{
				"name": peer.Name, "address": peer.Addr.String(), "my_asn": peer.MyASN, "asn": peer.ASN, "source": source, "selectors": selectors,
				"password": peer.Password != "",
			})
		}
		answer["pools"], answer["peers"] = pools, peers
	}
	json.NewEncoder(os.Stdout).Encode(answer)
}
