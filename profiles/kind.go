package profiles

import (
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"hutch/fs"
	"hutch/fs/quantity"
)

// A kind says what values a key has, and how they are written. Those up to
// isRing are texts in a config; the others are of profiles only.
type kind int

const (
	isText     kind = iota // of one line
	isLines                // a text of one or more
	isName                 // of a file in a folder of names
	isPath                 // absolute
	isHostname             // that a guest sees
	isSize
	isTime
	isNumber
	isCount
	isNet
	isUndo
	isMounts
	isRing

	isFlag
	isNoFlag     // the opposite
	isPin        // a flag, or a word
	isTexts      // a list
	isHosts      // and networks
	isPatterns   // of hosts
	isPrefixes   // of names
	isTools      // of a server
	isVariables  // a table, of an environment
	isHeaders    // of requests
	isLinesTable // a table of texts of one line or more
	isLists      // a table of lists
	isSections   // a table, of what others may say
	isClients    // a list
	isTable      // of anything
	isAny
)

// The networks that a VM may have. Neither is a network to the guest, which has
// its loopback only.
const (
	NetNone  = "none"
	NetProxy = "host-proxy" // HTTP and HTTPS, through a proxy of the host
)

// What a VM's workspace can be put back to.
const (
	UndoNone  = "none"
	UndoCalls = "calls" // before each MCP call that may change it
	UndoExecs = "execs" // before each command
	UndoAll   = "all"   // before either
)

// What of secrets that are known is taken out of what servers say to a client.
const (
	HideCredentials = "credentials" // what the servers themselves are given, the default
	HideKnown       = "known"       // all that records do not show, too
	HideNothing     = "nothing"
)

var undos = []string{UndoNone, UndoCalls, UndoExecs, UndoAll}

// set gives the field of k the value that v says; an empty v unsets it. The
// text of its error goes on after the key's name.
func (k *Key) set(field any, v string) error {
	if v == "" {
		reflect.ValueOf(field).Elem().SetZero()
		return nil
	}
	if k.kind != isLines && strings.ContainsAny(v, "\x00\n\r") {
		return errors.New("has a line end or NUL in it")
	}
	var err error
	switch f := field.(type) {
	case *string:
		*f, err = v, k.check(v)
	case *int64:
		*f, err = k.size(v)
	case *time.Duration:
		*f, err = k.time(v)
	case *float64:
		*f, err = k.number(v)
	case *int:
		if _, err = k.number(v); err == nil {
			*f, err = strconv.Atoi(v)
		}
	case *Mounts:
		err = f.add(v)
	case *Ring:
		err = f.Set(v)
	}
	return err
}

// text returns the value of the field of k, "" if it is not set.
func (k *Key) text(field any) string {
	if reflect.ValueOf(field).Elem().IsZero() {
		return ""
	}
	switch f := field.(type) {
	case *string:
		return *f
	case *int64:
		return quantity.SizeText(*f)
	case *time.Duration:
		return quantity.TimeText(*f)
	case *float64:
		return strconv.FormatFloat(*f, 'f', -1, 64)
	case *int:
		return strconv.Itoa(*f)
	case *Mounts:
		return string(*f)
	case *Ring:
		return f.String()
	}
	return ""
}

// check says what is wrong with the text v.
func (k *Key) check(v string) error {
	wrong := func(what string) error { return fmt.Errorf("%.64q %s", v, what) }
	switch {
	case k.kind == isName && (v[0] == '.' || len(v) > 255 || strings.ContainsAny(v, "/ \t")):
		return wrong("is not a name")
	case k.kind == isPath && !filepath.IsAbs(v):
		return wrong("is not an absolute path")
	case k.kind == isHostname && (len(v) > 63 || v != strings.Trim(v, "-.") || strings.ContainsFunc(v, fs.NotIn("-."))):
		return wrong("is not a host name")
	case k.kind == isNet && v != NetNone && v != NetProxy:
		return fmt.Errorf("%.64q: it is %s or %s", v, NetNone, NetProxy)
	case k.Words != nil && !slices.Contains(k.Words, v):
		return fmt.Errorf("%.64q: it is one of %s", v, strings.Join(k.Words, ", "))
	case k.kind == isUndo && !slices.Contains(undos, v):
		return fmt.Errorf("%.64q: it is %s", v, strings.Join(undos, ", "))
	}
	return nil
}

// size refuses what is too small or too large, and says so of what is that for want of a unit.
func (k *Key) size(v string) (int64, error) {
	n, err := quantity.Size(v)
	if err != nil {
		return 0, err
	}
	least, _ := quantity.Size(k.Min)
	most, _ := quantity.Size(k.Max)
	switch {
	case k.Max != "" && n > most:
		return 0, fmt.Errorf("is too large: %s > %s", v, k.Max)
	case n >= least:
		return n, nil
	case strings.Trim(v, "0123456789") == "":
		return 0, fmt.Errorf("is too small: %s bytes < %s: say a unit, like 512MiB", v, k.Min)
	}
	return 0, fmt.Errorf("is too small: %s < %s", v, k.Min)
}

func (k *Key) time(v string) (time.Duration, error) {
	d, err := quantity.Time(v)
	if least, _ := quantity.Time(k.Min); err == nil && d < least {
		err = fmt.Errorf("is too short: %s < %s", v, k.Min)
	}
	return d, err
}

func (k *Key) number(v string) (float64, error) {
	digits := "0123456789."
	if k.kind == isCount {
		digits = "-0123456789"
	}
	least, _ := strconv.ParseFloat(k.Min, 64)
	most, _ := strconv.ParseFloat(k.Max, 64)
	n, err := strconv.ParseFloat(v, 64)
	if err != nil || n < least || n > most || strings.Trim(v, digits) != "" {
		return 0, fmt.Errorf("%.64q is not a number from %s to %s", v, k.Min, k.Max)
	}
	return n, nil
}
