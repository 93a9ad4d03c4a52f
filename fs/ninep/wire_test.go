package ninep

import (
	"fmt"
	"strconv"
	"strings"

	"hutch/fs/ninep/wire"
)

// The traces' language: a message is its name and pairs of a field and a
// value. This table, and not the server's code, says how they look on the
// wire. Fields are integers of 1, 2, 4 and 8 bytes, s strings, S lists of
// strings, q qids, Q lists of qids, b bytes with a count of 4, w stats inside
// a count of 2, and D directory entries.
var formats = map[string]struct {
	typ    uint8
	fields string
}{
	"Rlerror":      {7, "ecode:4"},
	"Tstatfs":      {8, "fid:4"},
	"Rstatfs":      {9, "type:4 bsize:4 blocks:8 bfree:8 bavail:8 files:8 ffree:8 fsid:8 namelen:4"},
	"Tlopen":       {12, "fid:4 flags:4"},
	"Rlopen":       {13, "qid:q iounit:4"},
	"Tlcreate":     {14, "fid:4 name:s flags:4 mode:4 gid:4"},
	"Rlcreate":     {15, "qid:q iounit:4"},
	"Tsymlink":     {16, "fid:4 name:s symtgt:s gid:4"},
	"Rsymlink":     {17, "qid:q"},
	"Tmknod":       {18, "fid:4 name:s mode:4 major:4 minor:4 gid:4"},
	"Rmknod":       {19, "qid:q"},
	"Trename":      {20, "fid:4 dfid:4 name:s"},
	"Rrename":      {21, ""},
	"Treadlink":    {22, "fid:4"},
	"Rreadlink":    {23, "target:s"},
	"Tgetattr":     {24, "fid:4 mask:8"},
	"Rgetattr":     {25, "valid:8 qid:q mode:4 uid:4 gid:4 nlink:8 rdev:8 size:8 blksize:8 blocks:8 atime:8 atimens:8 mtime:8 mtimens:8 ctime:8 ctimens:8 btime:8 btimens:8 gen:8 dataversion:8"},
	"Tsetattr":     {26, "fid:4 valid:4 mode:4 uid:4 gid:4 size:8 atime:8 atimens:8 mtime:8 mtimens:8"},
	"Rsetattr":     {27, ""},
	"Txattrwalk":   {30, "fid:4 newfid:4 name:s"},
	"Txattrcreate": {32, "fid:4 name:s size:8 flags:4"},
	"Treaddir":     {40, "fid:4 offset:8 count:4"},
	"Rreaddir":     {41, "entries:D"},
	"Tfsync":       {50, "fid:4 datasync:4"},
	"Rfsync":       {51, ""},
	"Tlock":        {52, "fid:4 type:1 flags:4 start:8 length:8 pid:4 client:s"},
	"Rlock":        {53, "status:1"},
	"Tgetlock":     {54, "fid:4 type:1 start:8 length:8 pid:4 client:s"},
	"Rgetlock":     {55, "type:1 start:8 length:8 pid:4 client:s"},
	"Tlink":        {70, "dfid:4 fid:4 name:s"},
	"Rlink":        {71, ""},
	"Tmkdir":       {72, "dfid:4 name:s mode:4 gid:4"},
	"Rmkdir":       {73, "qid:q"},
	"Trenameat":    {74, "olddfid:4 oldname:s newdfid:4 newname:s"},
	"Rrenameat":    {75, ""},
	"Tunlinkat":    {76, "dfid:4 name:s flags:4"},
	"Runlinkat":    {77, ""},
	"Tversion":     {100, "msize:4 version:s"},
	"Rversion":     {101, "msize:4 version:s"},
	"Tauth":        {102, "afid:4 uname:s aname:s"},
	"Tattach":      {104, "fid:4 afid:4 uname:s aname:s"},
	"TauthL":       {102, "afid:4 uname:s aname:s uid:4"},
	"TattachL":     {104, "fid:4 afid:4 uname:s aname:s uid:4"},
	"Rattach":      {105, "qid:q"},
	"Rerror":       {107, "ename:s"},
	"Tflush":       {108, "oldtag:2"},
	"Rflush":       {109, ""},
	"Twalk":        {110, "fid:4 newfid:4 wname:S"},
	"Rwalk":        {111, "wqid:Q"},
	"Topen":        {112, "fid:4 mode:1"},
	"Ropen":        {113, "qid:q iounit:4"},
	"Tcreate":      {114, "fid:4 name:s perm:4 mode:1"},
	"Rcreate":      {115, "qid:q iounit:4"},
	"Tread":        {116, "fid:4 offset:8 count:4"},
	"Rread":        {117, "data:b"},
	"Twrite":       {118, "fid:4 offset:8 data:b"},
	"Rwrite":       {119, "count:4"},
	"Tclunk":       {120, "fid:4"},
	"Rclunk":       {121, ""},
	"Tremove":      {122, "fid:4"},
	"Rremove":      {123, ""},
	"Tstat":        {124, "fid:4"},
	"Rstat":        {125, "stat:w"},
	"Twstat":       {126, "fid:4 stat:w"},
	"Rwstat":       {127, ""},
}

// statFields are those of a stat after its size.
const statFields = "type:2 dev:4 qid:q mode:4 atime:4 mtime:4 length:8 name:s uid:s gid:s muid:s"

// names has the name of each type of reply.
var names = func() map[uint8]string {
	m := map[uint8]string{}
	for name, f := range formats {
		if name[0] == 'R' {
			m[f.typ] = name
		}
	}
	return m
}()

// A note is a message of a trace: its name, tag, and fields as text.
type note struct {
	name   string
	tag    string // "" if not given
	fields map[string]string
}

// parseNote reads a line such as
//
//	Twalk tag 2 fid 0 newfid 1 wname [a "b c"]
func parseNote(line string) (note, error) {
	name, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
	n := note{name: name, fields: map[string]string{}}
	if _, ok := formats[name]; !ok {
		return n, fmt.Errorf("unknown message %q", name)
	}
	for {
		rest = strings.TrimSpace(rest)
		if rest == "" {
			return n, nil
		}
		var key, value string
		key, rest, _ = strings.Cut(rest, " ")
		value, rest = cutValue(strings.TrimSpace(rest))
		if key == "tag" {
			n.tag = value
		} else {
			n.fields[key] = value
		}
	}
}

func cutValue(s string) (value, rest string) {
	if strings.HasPrefix(s, "[") {
		if i := strings.Index(s, "]"); i > 0 {
			return s[:i+1], s[i+1:]
		}
	}
	if q, err := strconv.QuotedPrefix(s); err == nil {
		value, _ = strconv.Unquote(q)
		return value, s[len(q):]
	}
	value, rest, _ = strings.Cut(s, " ")
	return value, rest
}

func listOf(value string) []string {
	value = strings.TrimSuffix(strings.TrimPrefix(value, "["), "]")
	var list []string
	for value = strings.TrimSpace(value); value != ""; value = strings.TrimSpace(value) {
		var v string
		v, value = cutValue(value)
		list = append(list, v)
	}
	return list
}

// number reads an integer. Fields not given are 0, but those of a stat and
// afid, which then say "none".
func number(field, value string, none bool) (uint64, error) {
	switch {
	case value == "NOFID":
		return 1<<32 - 1, nil
	case value == "NOTAG":
		return 1<<16 - 1, nil
	case value == "" && (none || field == "afid"):
		return 1<<64 - 1, nil
	case value == "":
		return 0, nil
	}
	return strconv.ParseUint(value, 0, 64)
}

// encode makes the message.
func (n note) encode(tag uint16) ([]byte, error) {
	b := make([]byte, wire.HeadLen)
	b, err := n.put(b, formats[n.name].fields, false)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", n.name, err)
	}
	return wire.Seal(b, formats[n.name].typ, tag), nil
}

func (n note) put(b []byte, fields string, none bool) ([]byte, error) {
	for _, f := range strings.Fields(fields) {
		field, kind, _ := strings.Cut(f, ":")
		value := n.fields[field]
		switch kind {
		case "s":
			b = wire.PutString(b, value)
		case "S":
			list := listOf(value)
			b = wire.Put16(b, uint16(len(list)))
			for _, s := range list {
				b = wire.PutString(b, s)
			}
		case "b":
			b = append(wire.Put32(b, uint32(len(value))), value...)
		case "q":
			b = wire.PutQid(b, untouched.qid)
		case "w":
			stat, err := n.put(nil, statFields, true)
			if err != nil {
				return nil, err
			}
			b = wire.Put16(wire.Put16(b, uint16(len(stat)+2)), uint16(len(stat)))
			b = append(b, stat...)
		default:
			v, err := number(field, value, none)
			if err != nil {
				return nil, err
			}
			size, _ := strconv.Atoi(kind)
			b = append(b, wire.Put64(nil, v)[:size]...)
		}
	}
	return b, nil
}

// decode makes a note of a reply.
func decodeNote(frame []byte) (note, uint16, error) {
	c := &wire.Cutter{B: frame}
	if int(c.U32()) != len(frame) {
		return note{}, 0, fmt.Errorf("reply has a wrong size")
	}
	typ, tag := c.U8(), c.U16()
	name, ok := names[typ]
	if !ok {
		return note{}, tag, fmt.Errorf("reply of type %d", typ)
	}
	n := note{name: name, tag: strconv.Itoa(int(tag)), fields: map[string]string{}}
	n.get(c, formats[name].fields)
	if err := c.End(); err != nil {
		return n, tag, fmt.Errorf("%s: %w", name, err)
	}
	return n, tag, nil
}

func (n note) get(c *wire.Cutter, fields string) {
	for _, f := range strings.Fields(fields) {
		field, kind, _ := strings.Cut(f, ":")
		switch kind {
		case "s":
			n.fields[field] = c.Str()
		case "q":
			n.fields[field] = getQid(c)
		case "Q":
			var list []string
			for range c.U16() {
				list = append(list, getQid(c))
			}
			n.fields[field] = strings.Join(list, " ")
			n.fields["nwqid"] = strconv.Itoa(len(list))
		case "b":
			data := string(c.Data())
			n.fields[field] = data
			n.fields["count"] = strconv.Itoa(len(data))
			n.fields["names"] = statNames(data)
		case "w":
			c.U16()
			c.U16()
			n.get(c, statFields)
		case "D":
			n.getEntries(c)
		default:
			size, _ := strconv.Atoi(kind)
			var v [8]byte
			copy(v[:], c.Take(size))
			n.fields[field] = strconv.FormatUint(le.Uint64(v[:]), 10)
		}
	}
}

// getEntries takes the data of an Rreaddir; each entry is shown with its
// offset and type.
func (n note) getEntries(c *wire.Cutter) {
	d := &wire.Cutter{B: c.Data()}
	var list, bare []string
	for len(d.B) > 0 && !d.Bad {
		q := getQid(d)
		off, typ, name := d.U64(), d.U8(), d.Str()
		list = append(list, fmt.Sprintf("%s:%d:%d%s", name, off, typ, q[strings.LastIndex(q, "."):]))
		bare = append(bare, name)
	}
	c.Bad = c.Bad || d.Bad
	n.fields["entries"] = "[" + strings.Join(list, " ") + "]"
	n.fields["names"] = "[" + strings.Join(bare, " ") + "]"
	n.fields["count"] = strconv.Itoa(len(list))
}

// getQid shows a qid as its version and the letters of its type.
func getQid(c *wire.Cutter) string {
	typ, vers, _ := c.U8(), c.U32(), c.U64()
	s := fmt.Sprintf("%d.", vers)
	for i, letter := range "dalMATLH" {
		if typ&(0x80>>i) != 0 {
			s += string(letter)
		}
	}
	return s
}

// statNames lists the names in the data of a directory of 9P2000.
func statNames(data string) string {
	var list []string
	for len(data) > 2 {
		size := int(le.Uint16([]byte(data))) + 2
		if size > len(data) {
			return ""
		}
		d, err := getStat([]byte(data[:size]))
		if err != nil {
			return ""
		}
		list = append(list, d.name)
		data = data[size:]
	}
	return "[" + strings.Join(list, " ") + "]"
}
