package pack_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"hutch/vmm/pack"
)

// tree makes a folder as of a project: many small files of text, some that do not
// compress, and one with holes. It returns how many bytes they have.
func tree(b *testing.B, dir string) int64 {
	b.Helper()
	sum := int64(0)
	write := func(name string, data []byte) {
		os.MkdirAll(filepath.Dir(name), 0o755)
		if err := os.WriteFile(name, data, 0o644); err != nil {
			b.Fatal(err)
		}
		sum += int64(len(data))
	}
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 2000 {
		var text bytes.Buffer
		for text.Len() < 16<<10 {
			fmt.Fprintf(&text, "func f%d(x int) int { return x*%d + %d }\n", random.IntN(1000), random.IntN(1e6), random.IntN(100))
		}
		write(filepath.Join(dir, fmt.Sprint("d", i%40), fmt.Sprint("f", i, ".go")), text.Bytes())
	}
	noise := make([]byte, 8<<20)
	for i := range 8 {
		rand.NewChaCha8([32]byte{byte(i)}).Read(noise)
		write(filepath.Join(dir, "bin", fmt.Sprint(i)), noise)
	}
	return sum
}

// told prints p50, p99 and the throughput of what took these times.
func told(b *testing.B, what string, bytes int64, took []time.Duration) float64 {
	slices.Sort(took)
	p50, p99 := took[len(took)/2], took[len(took)*99/100]
	rate := float64(bytes) / (1 << 20) / p50.Seconds()
	b.Logf("%-28s p50 %8s  p99 %8s  %7.1f MiB/s", what, p50.Round(time.Millisecond), p99.Round(time.Millisecond), rate)
	return rate
}

// BenchmarkPack packs and unpacks a folder beside tar and zstd -1.
func BenchmarkPack(b *testing.B) {
	top := b.TempDir()
	work := filepath.Join(top, "work")
	size := tree(b, work)
	_, tarErr := exec.LookPath("tar")
	_, zstdErr := exec.LookPath("zstd")
	yardstick := tarErr == nil && zstdErr == nil
	var took [4][]time.Duration
	var data []byte
	var err error
	ours := filepath.Join(top, "archive")
	for b.Loop() {
		at := time.Now()
		packInto(b, ours, pack.Folder{Name: "work", Dir: work})
		took[0] = append(took[0], time.Since(at))
		if data, err = os.ReadFile(ours); err != nil {
			b.Fatal(err)
		}
		to := filepath.Join(top, "to")
		os.Mkdir(to, 0o755)
		at = time.Now()
		if err := extract(b.Context(), data, to, pack.Limits{Files: 1 << 20, Room: room(1 << 40)}); err != nil {
			b.Fatal(err)
		}
		took[1] = append(took[1], time.Since(at))
		os.RemoveAll(to)
		if !yardstick {
			continue
		}
		file := filepath.Join(top, "tar.zst")
		at = time.Now()
		shell(b, "tar -C "+work+" -c . | zstd -q -1 >"+file)
		took[2] = append(took[2], time.Since(at))
		os.Mkdir(to, 0o755)
		at = time.Now()
		shell(b, "zstd -q -dc "+file+" | tar -C "+to+" -x")
		took[3] = append(took[3], time.Since(at))
		os.RemoveAll(to)
	}
	rates := [4]float64{}
	for i, what := range []string{"pack", "unpack", "tar | zstd -1", "zstd -d | tar"} {
		if len(took[i]) > 0 {
			rates[i] = told(b, what, size, took[i])
		}
	}
	b.ReportMetric(rates[0], "MiB/s")
	if yardstick {
		b.Logf("%d bytes of %d; beside the yardstick pack %.2f, unpack %.2f", len(data), size, rates[0]/rates[2], rates[1]/rates[3])
	}
}

func packInto(b *testing.B, name string, f pack.Folder) {
	b.Helper()
	out, err := os.Create(name)
	if err != nil {
		b.Fatal(err)
	}
	defer out.Close()
	w, err := pack.NewWriter(out, pack.Manifest{})
	if err == nil {
		err = w.Folder(b.Context(), f, func() error { return nil })
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		b.Fatal(err)
	}
}

func shell(b *testing.B, line string) {
	if out, err := exec.Command("sh", "-c", line).CombinedOutput(); err != nil {
		b.Fatalf("%s: %v: %s", line, err, out)
	}
}
