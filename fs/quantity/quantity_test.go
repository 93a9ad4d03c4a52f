package quantity

import (
	"strings"
	"testing"
	"time"
)

func TestSize(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "1048576": 1 << 20, "64k": 64 << 10, "512MiB": 512 << 20, "512m": 512 << 20, "8mib": 8 << 20, "2G": 2 << 30, "3TiB": 3 << 40, "1t": 1 << 40, "2GB": 2e9, "64mb": 64e6, "3KB": 3000, "9223372TB": 9223372e12,
		"9223372036854775807": 1<<63 - 1, "8388607T": 8388607 << 40,
	} {
		if n, err := Size(text); n != want || err != nil {
			t.Errorf("%s: %d, %v; want %d", text, n, err, want)
		}
	}
	for _, text := range []string{"", "MiB", "lots", "-1", "+1", "1.5G", "1.5GB", "2GiBB", "9223373TB", "512 MiB", " 1", "0x10", "1_000", "9223372036854775808", "8388608T", "99999999999GiB"} {
		if n, err := Size(text); err == nil {
			t.Errorf("%q is %d", text, n)
		}
	}
	_, err := Size(strings.Repeat("lots", 100))
	if want := `"` + strings.Repeat("lots", 16) + `" is not a size like 512MiB: a whole number of K, KB, KiB to TiB`; err.Error() != want {
		t.Errorf("%v; want %s", err, want)
	}
}

func TestSizeText(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 1: "1", 1000: "1KB", 1001: "1001", 64e6: "64MB", 500e6: "500MB", 1000 << 20: "1000MiB", 1 << 10: "1KiB", 3 << 19: "1536KiB", 1 << 30: "1GiB", 5 << 40: "5TiB", -2048: "-2KiB"} {
		if got := SizeText(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

func TestTime(t *testing.T) {
	for text, want := range map[string]time.Duration{"0": 0, "90s": 90 * time.Second, "1.5h": 90 * time.Minute, "1h0m1s": time.Hour + time.Second, "200ms": 200 * time.Millisecond} {
		if d, err := Time(text); d != want || err != nil {
			t.Errorf("%s: %v, %v", text, d, err)
		}
	}
	for text, want := range map[string]string{
		"": " like 90s, 30m or 8h", "-1h": " like 90s, 30m or 8h", "soon": " like 90s, 30m or 8h", "1 h": " like 90s, 30m or 8h", "1d": " like 90s, 30m or 8h",
		"5": ": say a unit, like 5s", "0.3": ": say a unit, like 0.3s",
	} {
		if d, err := Time(text); err == nil || err.Error() != `"`+text+`" is not a time`+want {
			t.Errorf("%q: %v, %v", text, d, err)
		}
	}
	for d, want := range map[time.Duration]string{0: "0s", time.Minute: "1m", 90 * time.Second: "1m30s", time.Hour: "1h", 48 * time.Hour: "48h", time.Hour + time.Second: "1h0m1s", 10 * time.Minute: "10m", 20 * time.Hour: "20h", time.Millisecond: "1ms"} {
		if got := TimeText(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}

func TestTimeout(t *testing.T) {
	for text, want := range map[string]time.Duration{"0": 0, "60": time.Minute, "5m": 5 * time.Minute} {
		if d, err := Timeout(text); d != want || err != nil {
			t.Errorf("%s: %v, %v", text, d, err)
		}
	}
	for _, text := range []string{"", "soon", "0.3", "-1", "-1s", "99999999999"} {
		if d, err := Timeout(text); err == nil {
			t.Errorf("%q is %v", text, d)
		}
	}
}

// FuzzText reads texts, and what is written for their meaning.
func FuzzText(f *testing.F) {
	for _, s := range []string{"", "0", "512MiB", "2g", "64MB", "9223372036854775807", "8388608T", "90s", "1h0m1s", "1.5h", "60"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if n, err := Size(text); err == nil {
			if again, err := Size(SizeText(n)); n < 0 || again != n || err != nil {
				t.Errorf("%q is %d, whose text %s is %d, %v", text, n, SizeText(n), again, err)
			}
		}
		if d, err := Timeout(text); err == nil {
			if again, err := Time(TimeText(d)); d < 0 || again != d || err != nil {
				t.Errorf("%q is %v, whose text %s is %v, %v", text, d, TimeText(d), again, err)
			}
		}
	})
}
