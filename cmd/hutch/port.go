package main

import (
	"cmp"
	"context"
	"encoding/hex"
	"flag"
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"
)

// A listening is a port that a program in a VM listens on.
type listening struct {
	Port    uint16 `json:"port"`
	Address string `json:"address"` // in the VM
}

// definePort has the command that lists the ports that programs in a VM listen on, and
// where one can be led to them.
func definePort(flags *flag.FlagSet) action {
	asJSON := flags.Bool("json", false, "print a JSON object a line")
	return connected(func(ctx context.Context, c *tree, args []string) error {
		dir, err := runningVM(c, args[0])
		if err != nil {
			return err
		}
		ports, err := portsOf(c, dir)
		if err != nil {
			return err
		}
		t := newTable(*asJSON, "PORT", "ADDRESS", "LEAD TO IT")
		for _, p := range ports {
			n := strconv.Itoa(int(p.Port))
			if err := t.row(p, n, p.Address, "hutch forward "+args[0]+" "+n); err != nil {
				return err
			}
		}
		return t.flush()
	})
}

// portsOf returns the ports that programs in a VM listen on, as its kernel tells; none where
// the VM does not run.
func portsOf(c *tree, vm string) ([]listening, error) {
	if status, err := readFile(c, path.Join(vm, "status")); err != nil || !strings.HasPrefix(status, "running\n") {
		return nil, err
	}
	var list []listening
	for _, file := range []string{"tcp", "tcp6"} {
		text, err := readFile(c, path.Join(vm, "root/proc/1/net", file))
		if err != nil && !isMissing(err) { // there may be no IPv6
			return nil, err
		}
		list = append(list, listeningIn(text)...)
	}
	slices.SortFunc(list, func(a, b listening) int {
		return cmp.Or(cmp.Compare(a.Port, b.Port), strings.Compare(a.Address, b.Address))
	})
	return list, nil
}

// listeningIn returns what a file as /proc/net/tcp tells (proc(5)), which a guest may
// have made up.
func listeningIn(text string) (list []listening) {
	const state = "0A" // that listens
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) < 4 || words[3] != state {
			continue
		}
		address, port, _ := strings.Cut(words[1], ":")
		n, err := strconv.ParseUint(port, 16, 16)
		bytes, herr := hex.DecodeString(address)
		if err != nil || herr != nil || len(bytes)%4 != 0 {
			continue
		}
		for word := range slices.Chunk(bytes, 4) { // each has the order of the host
			slices.Reverse(word)
		}
		if ip, ok := netip.AddrFromSlice(bytes); ok {
			list = append(list, listening{uint16(n), ip.Unmap().String()})
		}
	}
	return list
}

func portWords(ports []listening) string {
	var words []string
	for _, p := range ports {
		words = append(words, fmt.Sprint(p.Port))
	}
	return strings.Join(slices.Compact(words), " ")
}
