package wire

// The messages. Those up to 77 are of 9P2000.L alone.
const (
	Rlerror      = 7
	Tstatfs      = 8
	Tlopen       = 12
	Tlcreate     = 14
	Tsymlink     = 16
	Tmknod       = 18
	Trename      = 20
	Treadlink    = 22
	Tgetattr     = 24
	Tsetattr     = 26
	Txattrwalk   = 30
	Txattrcreate = 32
	Treaddir     = 40
	Treaddirplus = 42 // our own: a Treaddir whose entries have attributes, of a fid or below it
	Tfsync       = 50
	Tlock        = 52
	Tgetlock     = 54
	Tlink        = 70
	Tmkdir       = 72
	Trenameat    = 74
	Tunlinkat    = 76
	Tversion     = 100
	Rversion     = 101
	Tauth        = 102
	Tattach      = 104
	Rerror       = 107
	Tflush       = 108
	Rflush       = 109
	Twalk        = 110
	Topen        = 112
	Tcreate      = 114
	Tread        = 116
	Twrite       = 118
	Tclunk       = 120
	Tremove      = 122
	Tstat        = 124
	Twstat       = 126
)
