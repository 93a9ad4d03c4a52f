package vmm_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hutch/vmm"
)

func TestConfigIsKeptAsWritten(t *testing.T) {
	w := newWorld(t)
	v := w.make("dev")
	const mark = "# default: "
	defaults := mark + "profile default\n" + mark + "driver fake\n" + mark + "pids 512\n" + mark + "records 256MiB\n" + mark + "net none\n" + mark + "undo none\n" + mark + "undo_keep 20\n"
	if got := v.ConfigText(); got != mark+"image host\n"+defaults {
		t.Errorf("new config %q", got)
	}
	good := "# mine\nimage  host\n\ncpus 1\n"
	for _, text := range []string{good, good[:len(good)-1], defaults + good, good + defaults + mark + "image old\n"} {
		if err := v.SetConfig(w.limit(), text); err != nil || v.ConfigText() != good+defaults {
			t.Errorf("config %q, %v", v.ConfigText(), err)
		}
	}
	bad := "cpus 1\nfrobs 3\n"
	wantErr(t, v.SetConfig(w.limit(), bad), `invalid argument: config line 2: unknown key "frobs": known are image profile driver kernel hostname ram cpus pids disk records idle ttl net mount snap undo undo_keep`)
	wantErr(t, v.Err(), `invalid argument: config line 2: unknown key "frobs": known are image profile driver kernel hostname ram cpus pids disk records idle ttl net mount snap undo undo_keep`)
	wantErr(t, v.SetConfig(w.limit(), "driver fake\ndriver warp\n"), `invalid argument: config line 2: no driver "warp" here: see drivers`)
	v.SetConfig(w.limit(), bad)
	for range 2 { // and after a restart
		if v.ConfigText() != bad || v.Config().CPUs != 1 {
			t.Errorf("config %q means %+v", v.ConfigText(), v.Config())
		}
		wantErr(t, v.Start(w.limit()), `invalid argument: config line 2: unknown key "frobs": known are image profile driver kernel hostname ram cpus pids disk records idle ttl net mount snap undo undo_keep: mend config first`)
		w.close()
		w.open()
		v = w.lookup("dev")
	}
	wantErr(t, v.Set(w.limit(), "cpus", "2"), `invalid argument: config line 2: unknown key "frobs": known are image profile driver kernel hostname ram cpus pids disk records idle ttl net mount snap undo undo_keep: mend that first, set changed nothing`)
	if v.ConfigText() != bad {
		t.Errorf("a refused set left %q", v.ConfigText())
	}
	v.SetConfig(w.limit(), good)
	if err := v.Set(w.limit(), "cpus", "2"); err != nil {
		t.Error(err)
	}
	if want := "# mine\nimage  host\n\ncpus 2\n" + defaults; v.ConfigText() != want {
		t.Errorf("config %q, want %q", v.ConfigText(), want)
	}
	wantErr(t, v.Set(w.limit(), "frobs", "3"), `invalid argument: unknown key "frobs": known are image profile driver kernel hostname ram cpus pids disk records idle ttl net mount snap undo undo_keep`)
	wantErr(t, v.Set(w.limit(), "driver", "warp"), `invalid argument: no driver "warp" here: see drivers`)
	if v.Config().CPUs != 2 || v.ConfigErr() != nil {
		t.Error("a refused set changed the config")
	}
}

func TestEnv(t *testing.T) {
	w := newWorld(t)
	v := w.make("dev")
	dir := filepath.Join(v.Dir(), "env")
	for name, value := range map[string]string{"B": "two\n", "A": "one", "E": "x\n\n", ".B.swp": "junk", "B~": "junk", "LD_PRELOAD": "mine"} {
		os.WriteFile(filepath.Join(dir, name), []byte(value), 0o644)
	}
	got, err := v.Env()
	if want := []string{"A=one", "B=two", "E=x\n", "LD_PRELOAD=mine"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("env %q, %v", got, err)
	}
	os.WriteFile(filepath.Join(dir, "BAD"), []byte("a\x00b"), 0o644)
	wantErr(t, v.Start(w.limit()), "invalid argument: env/BAD: a variable has no NUL in it")
	w.is(v, vmm.Created)
}

// What no command could be started with is no environment.
func TestEnvSize(t *testing.T) {
	w := newWorld(t)
	v := w.make("dev")
	dir := filepath.Join(v.Dir(), "env")
	const most = 127 << 10
	value := strings.Repeat("x", most)
	check := func(name, text string) error { return vmm.CheckEnvSize(dir, name, []byte(text)) }
	for i := range 8 {
		name := fmt.Sprint("V", i)
		if err := check(name, value+"\n"); err != nil {
			t.Fatal(name, err)
		}
		os.WriteFile(filepath.Join(dir, name), []byte(value+"\n"), 0o644)
	}
	if env, err := v.Env(); err != nil || len(env) != 8 {
		t.Fatal(len(env), err)
	}
	const together = "argument list too long: the variables of a VM have at most 1048576 bytes together, with 64 more for each"
	wantErr(t, check("V8", value), together+": remove one first")
	if err := check("V7", value); err != nil {
		t.Error("a variable counts beside what it was:", err)
	}
	os.WriteFile(filepath.Join(dir, "V8"), []byte(value), 0o644)
	os.WriteFile(filepath.Join(dir, "V9"), []byte(value), 0o644)
	for _, text := range []string{value, "less", ""} {
		if err := check("V8", text); err != nil {
			t.Error("of too many no variable can have less:", err)
		}
	}
	wantErr(t, check("V8", value+"\n"), together+": remove one first")
	wantErr(t, check("V10", ""), together+": remove one first")
	os.Remove(filepath.Join(dir, "V9"))
	_, err := v.Env()
	wantErr(t, err, strings.Replace(together, ": ", ": env/V8: ", 1))
	const one = "argument list too long: a variable has at most 130048 bytes"
	wantErr(t, check("V7", value+"x"), one)
	wantErr(t, check("V7", value+"x\n"), one)
	os.WriteFile(filepath.Join(dir, "V7"), []byte(value+"xx"), 0o644)
	_, err = v.Env()
	wantErr(t, err, strings.Replace(one, ": ", ": env/V7: ", 1))
}
