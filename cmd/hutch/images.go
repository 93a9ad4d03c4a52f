package main

import (
	"context"
	"flag"
	"fmt"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"hutch/fs"
)

// defineImages has the command that lists the images.
func defineImages(flags *flag.FlagSet) action {
	asJSON := flags.Bool("json", false, "print a JSON object a line")
	return connected(func(ctx context.Context, c *tree, _ []string) error {
		entries, err := c.readDir("images")
		if err != nil {
			return err
		}
		t := newTable(*asJSON, "IMAGE", "STATE", "KIND", "SIZE", "SOURCE")
		for _, e := range entries {
			dir := path.Join("images", e.Name)
			status, err := readFile(c, dir+"/status")
			if err != nil {
				continue // it went meanwhile
			}
			info, _ := readFile(c, dir+"/info")
			state, _, _ := strings.Cut(status, "\n")
			said := pairs(info)
			all := map[string]string{"image": e.Name, "state": state, "kind": said["kind"], "size": said["size"], "source": said["source"]}
			if err := t.row(all, e.Name, state, said["kind"], bytesText(said["size"]), said["source"]); err != nil {
				return err
			}
		}
		return t.flush()
	})
}

// bytesText returns a number of bytes as people read it.
func bytesText(digits string) string {
	n, err := strconv.ParseFloat(digits, 64)
	if err != nil {
		return ""
	}
	for _, unit := range []string{"B", "KiB", "MiB"} {
		if n < 1024 {
			return strconv.FormatFloat(n, 'f', min(1, len(unit)-1), 64) + unit
		}
		n /= 1024
	}
	return strconv.FormatFloat(n, 'f', 1, 64) + "GiB"
}

// pull fills a new image from a registry.
func pull(ctx context.Context, args []string) error {
	return fill(ctx, append(args, imageName(args[0]))[:2], "pull "+fs.Quote(args[0]))
}

// importImage fills a new image from a folder or an archive.
func importImage(ctx context.Context, args []string) error {
	from, err := filepath.Abs(args[0])
	if err != nil {
		return err
	}
	return fill(ctx, append(args, imageName(filepath.Base(from)))[:2], "import "+fs.Quote(from))
}

// imageName makes a name of a reference or a file's name: debian-12 of
// docker.io/library/debian:12.
func imageName(ref string) string {
	ref, _, _ = strings.Cut(ref, "@")
	name := path.Base(ref)
	for _, end := range []string{".gz", ".zst", ".tar", ".tgz"} {
		name = strings.TrimSuffix(name, end)
	}
	return strings.TrimLeft(strings.Map(func(r rune) rune {
		if !fs.NotIn("._-")(r) {
			return r
		}
		return '-'
	}, name), ".")
}

// fill makes the image called args[1], has it filled by message, and tells
// meanwhile how far that is. What fails leaves no image.
func fill(ctx context.Context, args []string, message string) error {
	dir, err := imageDir(args[1])
	if err != nil {
		return err
	}
	c, err := dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.mkdir(dir, 0o755); err != nil {
		return err
	}
	err = new(lastLine).until(ctx, func() string { return progress(c, dir) }, func() error { return writeFile(c, dir+"/ctl", message+"\n") })
	if err == nil {
		_, err = fmt.Println(args[1])
		return err
	}
	return giveUp(dir, err)
}

// giveUp ends what is under way and removes the image, whatever became of
// our connection.
func giveUp(dir string, why error) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c, err := dial(ctx)
	if err != nil {
		return why
	}
	defer c.Close()
	writeFile(c, dir+"/ctl", "cancel\n") // there may be nothing to cancel
	for ctx.Err() == nil && c.remove(dir) != nil {
		if _, err := c.stat(dir); err != nil {
			break
		}
		time.Sleep(50 * time.Millisecond) // the cancelled work ends
	}
	return why
}

// progress tells how far an image is.
func progress(c *tree, dir string) string {
	text, err := readFile(c, dir+"/status")
	if err != nil {
		return ""
	}
	state, _, _ := strings.Cut(text, "\n")
	said := pairs(text)
	line := path.Base(dir) + " is " + state
	if said["layers"] != "" {
		line += ", layers " + said["layers"]
	}
	if said["bytes"] != "" {
		line += ", " + bytesText(strings.Fields(said["bytes"])[0])
	}
	return line
}

// removeImage removes an image.
func removeImage(c *tree, name string) error {
	dir, err := imageDir(name)
	if err != nil {
		return err
	}
	return missing(c, dir, c.remove(dir), fmt.Sprintf("no image %q; hutch images lists them", name))
}
