package boot

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"hutch/relay/port"
)

// A mount is a file system to be mounted.
type mount struct {
	dir, kind, options string
	flags              uintptr
}

const plain = unix.MS_NOSUID | unix.MS_NODEV

// kernelMounts are what this package needs itself, guestMounts what programs
// expect.
var (
	kernelMounts = []mount{
		{"/proc", "proc", "", plain | unix.MS_NOEXEC},
		{"/sys", "sysfs", "", plain | unix.MS_NOEXEC},
		{"/dev", "devtmpfs", "mode=0755", unix.MS_NOSUID},
	}
	guestMounts = []mount{
		{"/dev/pts", "devpts", "ptmxmode=0666,mode=0620,gid=5", unix.MS_NOSUID | unix.MS_NOEXEC},
		{"/dev/shm", "tmpfs", "mode=1777", plain},
		{"/tmp", "tmpfs", "mode=1777", plain},
		{port.Folder, "tmpfs", "mode=0755,size=64k", plain},
		{Programs, "tmpfs", "mode=0755,size=64k", plain},
	}
)

// mountAll mounts file systems below root.
func mountAll(root string, list []mount) error {
	for _, m := range list {
		dir := root + m.dir
		if err := makeDir(dir); err != nil {
			return err
		}
		if err := unix.Mount(m.kind, dir, m.kind, m.flags, m.options); err != nil {
			return fmt.Errorf("mount %s: %w", m.dir, err)
		}
	}
	return nil
}

const newRoot = "/root"

// makeRoot mounts the guest's root file system on newRoot, an overlay of the
// layer on the image. It returns the layer.
func makeRoot(c Config) (*os.File, error) {
	image, err := disk(c.Image)
	if err == nil {
		err = mountDisk(image, "/image", unix.MS_RDONLY, "")
	}
	if err != nil {
		return nil, fmt.Errorf("disk %q with the image: %w", c.Image, err)
	}
	layer, err := disk(c.Layer)
	if err == nil {
		err = mountDisk(layer, "/layer", 0, "noinit_itable")
	}
	if err != nil {
		return nil, fmt.Errorf("disk %q for what is written: %w", c.Layer, err)
	}
	for _, dir := range []string{"/layer/upper", "/layer/work", newRoot} {
		if err := makeDir(dir); err != nil {
			return nil, err
		}
	}
	const options = "lowerdir=/image,upperdir=/layer/upper,workdir=/layer/work"
	if err := unix.Mount("hutch", newRoot, "overlay", 0, options); err != nil {
		return nil, fmt.Errorf("overlay of layer and image: %w", err)
	}
	return os.Open("/layer")
}

// appearing is how long a disk may take to be found by its driver.
const appearing = 10 * time.Second

// disk returns the device of the disk whose serial number is serial.
func disk(serial string) (string, error) {
	for end := time.Now().Add(appearing); ; time.Sleep(10 * time.Millisecond) {
		paths, _ := filepath.Glob("/sys/block/*/serial")
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err == nil && strings.TrimSpace(string(text)) == serial {
				return "/dev/" + filepath.Base(filepath.Dir(path)), nil
			}
		}
		if time.Now().After(end) {
			return "", fmt.Errorf("not among the %d disks that there are", len(paths))
		}
	}
}

func mountDisk(device, dir string, flags uintptr, options string) error {
	if err := makeDir(dir); err != nil {
		return err
	}
	return unix.Mount(device, dir, "ext4", flags, options)
}

// enterRoot makes newRoot the root of this process and of those to come, with
// all that belongs there.
func enterRoot() error {
	for _, m := range kernelMounts {
		if err := makeDir(newRoot + m.dir); err != nil {
			return err
		}
		if err := unix.Mount(m.dir, newRoot+m.dir, "", unix.MS_MOVE, ""); err != nil {
			return fmt.Errorf("move %s: %w", m.dir, err)
		}
	}
	if err := mountAll(newRoot, guestMounts); err != nil {
		return err
	}
	if err := layPrograms(newRoot + Programs); err != nil {
		return err
	}
	if err := os.Chdir(newRoot); err != nil {
		return err
	}
	if err := unix.Mount(".", "/", "", unix.MS_MOVE, ""); err != nil {
		return err
	}
	if err := unix.Chroot("."); err != nil {
		return err
	}
	return os.Chdir("/")
}

// layPrograms puts this program where the guest's commands find it.
func layPrograms(dir string) error {
	guest := filepath.Join(dir, "hutch-guest")
	f, err := os.Create(guest)
	if err != nil {
		return err
	}
	f.Close()
	if err := unix.Mount("/init", guest, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("show the guest program: %w", err)
	}
	if err := os.Symlink("hutch-guest", filepath.Join(dir, "hutch-relay")); err != nil {
		return err
	}
	return unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY|plain, "")
}
