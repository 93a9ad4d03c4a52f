package main

import (
	"bufio"
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/term"

	"hutch/fs"
)

// definePrune has the command that removes what nobody uses: VMs that neither run nor are
// suspended, and images that no VM and no server has.
func definePrune(flags *flag.FlagSet) action {
	yes := flags.Bool("yes", false, "do not ask")
	images := flags.Bool("images", false, "images that no VM and no server has, too")
	return connected(func(ctx context.Context, c *tree, _ []string) error {
		vms, spare, err := unused(c)
		if !*images {
			spare = nil
		}
		if err != nil {
			return err
		}
		if len(vms)+len(spare) == 0 {
			fmt.Fprintln(os.Stderr, "hutch: nothing is unused")
			return nil
		}
		tellUnused(vms, spare)
		if !*yes {
			if sure, err := confirmed(); !sure {
				return err
			}
		}
		return cmp.Or(
			forAll(ctx, vms, func(vm string) error { return removeVM(c, vm, false) }),
			forAll(ctx, spare, func(image string) error { return removeImage(c, image) }))
	})
}

func tellUnused(vms, images []string) {
	for _, of := range []struct {
		what  string
		names []string
	}{{"VMs, with their files and records", vms}, {"images", images}} {
		if len(of.names) > 0 {
			fmt.Printf("%s: %s\n", of.what, fs.QuoteAll(of.names))
		}
	}
}

// confirmed asks the person at the terminal.
func confirmed() (bool, error) {
	if !term.IsTerminal(0) {
		return false, fmt.Errorf("%w: nobody can be asked here: -yes removes them", fs.ErrNotPermitted)
	}
	fmt.Print("Remove them? [y/N] ")
	answer, err := bufio.NewReader(os.Stdin).ReadString('\n')
	if err != nil {
		return false, fmt.Errorf("%w: no answer", fs.ErrInvalid)
	}
	answer = strings.ToLower(strings.TrimSpace(answer))
	return answer == "y" || answer == "yes", nil
}

// unused returns the VMs that neither run nor are suspended, but for the sandboxes of
// servers and what goes by itself, and the images that then nobody has.
func unused(c *tree) (vms, images []string, err error) {
	text, err := readFile(c, "status")
	if err != nil {
		return nil, nil, err
	}
	used := []string{"host"}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) < 4 {
			continue
		}
		status, err := readFile(c, path.Join("vm", words[0], "status"))
		said := pairs(status)
		if err == nil && !alive(status) && said["owner"] == "" && said["anonymous"] == "" {
			vms = append(vms, words[0])
		} else {
			used = append(used, words[3])
		}
	}
	servers, err := folders(c, "servers")
	if err != nil {
		return nil, nil, err
	}
	for _, name := range servers {
		status, err := readFile(c, path.Join("servers", name, "status"))
		if err != nil {
			return nil, nil, err
		}
		image, _, _ := strings.Cut(pairs(status)["image"], " ")
		used = append(used, image)
	}
	images, err = folders(c, "images")
	return vms, slices.DeleteFunc(images, func(name string) bool { return slices.Contains(used, name) }), err
}
