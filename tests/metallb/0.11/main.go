// Copyright (c) 2026, multicluster.network authors
// GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

// What MetalLB 0.11 makes of a configuration: reads the text of its ConfigMap, prints what its own parser found in it, or its error.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"go.universe.tf/metallb/internal/config"
)

func main() {
	text, err := io.ReadAll(os.Stdin)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	answer := map[string]interface{}{}
	parsed, err := config.Parse(text)
	if err != nil {
		answer["error"] = err.Error()
	} else {
		pools := map[string]interface{}{}
		for name, pool := range parsed.Pools {
			cidrs := []string{}
			for _, cidr := range pool.CIDR {
				cidrs = append(cidrs, cidr.String())
			}
			pools[name] = map[string]interface{}{
				"protocol": string(pool.Protocol), "auto_assign": pool.AutoAssign, "addresses": cidrs, "advertisements": len(pool.BGPAdvertisements),
			}
		}
		peers := []interface{}{}
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
				"address": peer.Addr.String(), "my_asn": peer.MyASN, "asn": peer.ASN, "source": source, "selectors": selectors,
				"password": peer.Password != "",
			})
		}
		answer["pools"], answer["peers"] = pools, peers
	}
	json.NewEncoder(os.Stdout).Encode(answer)
}
