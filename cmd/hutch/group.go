package main

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"strconv"
	"strings"
)

// groupVerbs is the table of what hutch group does.
var groupVerbs = map[string]verb[func(ctx context.Context, c *tree, args []string) error]{
	"ls":     {0, 0, listGroups},
	"make":   {1, -1, eachGroup(func(c *tree, dir string) error { return c.mkdir(dir, 0o755) })},
	"rm":     {1, -1, eachGroup(func(c *tree, dir string) error { return noGroup(c, dir, c.remove(dir)) })},
	"add":    {2, -1, eachMember("members", "")},
	"remove": {2, -1, eachMember("ctl", "remove ")},
}

// group makes and removes groups of servers, and says who is in them.
func group(ctx context.Context, args []string) error {
	do, err := verbOf("group", groupVerbs, args)
	if err != nil {
		return err
	}
	return connected(do)(ctx, args[1:])
}

func groupDir(name string) (string, error) { return entryOf("groups", "a group", name) }

// noGroup tells that there is no such group, if that is why err is.
func noGroup(c *tree, dir string, err error) error {
	return missing(c, dir, err, fmt.Sprintf("no group %q; hutch group ls lists them", path.Base(dir)))
}

// eachGroup has a verb do something to the folder of every group that its arguments name.
func eachGroup(do func(c *tree, dir string) error) func(context.Context, *tree, []string) error {
	return func(ctx context.Context, c *tree, names []string) error {
		return forAll(ctx, names, func(name string) error {
			dir, err := groupDir(name)
			if err != nil {
				return err
			}
			return do(c, dir)
		})
	}
}

// eachMember has a verb write a line for every server that its arguments name to a file of a
// group.
func eachMember(file, before string) func(context.Context, *tree, []string) error {
	return func(ctx context.Context, c *tree, args []string) error {
		dir, err := groupDir(args[0])
		if err != nil {
			return err
		}
		return forAll(ctx, args[1:], func(server string) error {
			if _, err := serverDir(server); err != nil {
				return err
			}
			return noGroup(c, dir, writeFile(c, path.Join(dir, file), before+server+"\n"))
		})
	}
}

// listGroups prints the groups with their members.
func listGroups(_ context.Context, c *tree, _ []string) error {
	names, err := folders(c, "groups")
	if err != nil {
		return err
	}
	t := newTable(false, "NAME", "STATE", "TOOLS", "MEMBERS")
	for _, name := range names {
		status, err := readFile(c, path.Join("groups", name, "status"))
		if err != nil {
			continue // it went meanwhile
		}
		members, _ := readFile(c, path.Join("groups", name, "members"))
		state, rest, _ := strings.Cut(status, "\n")
		tools, _ := strconv.Atoi(pairs(rest)["tools"])
		if err := t.row(nil, name, state, strconv.Itoa(tools), cmp.Or(strings.Join(strings.Fields(members), " "), "-")); err != nil {
			return err
		}
	}
	return t.flush()
}
