//go:build linux || darwin

package wire

import (
	"bufio"
	"errors"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// NewRunChannel returns the host's end, and the backend's end as a file to inherit.
func NewRunChannel() (*RunChannel, *os.File, error) {
	syscall.ForkLock.RLock()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fds[0])
		syscall.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, err
	}
	far := os.NewFile(uintptr(fds[1]), "runs")
	c, err := OpenRunChannel(os.NewFile(uintptr(fds[0]), "runs"))
	if err != nil {
		far.Close()
		return nil, nil, err
	}
	return c, far, nil
}

// OpenRunChannel returns a channel for one end of the socket, and closes f.
func OpenRunChannel(f *os.File) (*RunChannel, error) {
	defer f.Close()
	conn, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	c := &RunChannel{Conn: conn, In: bufio.NewReader(conn)}
	if c.raw, err = conn.(syscall.Conn).SyscallConn(); err == nil {
		err = errors.Join(c.raw.Control(func(fd uintptr) { err = unix.SetNonblock(int(fd), false) }), err)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return c, nil
}

// interrupt ends system calls that wait for this socket: closing it does not, and deadlines have no effect on it.
func (c *RunChannel) interrupt() {
	c.raw.Control(func(fd uintptr) { unix.Shutdown(int(fd), unix.SHUT_RDWR) })
}

// silent reports whether the socket is open and has nothing to read.
func (c *RunChannel) silent() (silent bool) {
	var b [1]byte
	err := c.raw.Read(func(fd uintptr) bool {
		_, _, err := unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		silent = err == unix.EAGAIN || err == unix.EINTR
		return true
	})
	return silent && err == nil
}

// wake sends an empty message. If the socket is full, the other side has not read any of those before, and will look
// at the doorbell when it does.
func (c *RunChannel) wake() error {
	var err error
	done := c.raw.Control(func(fd uintptr) {
		for {
			_, err = unix.SendmsgN(int(fd), make([]byte, 4), nil, nil, unix.MSG_DONTWAIT)
			if err != unix.EINTR {
				return
			}
		}
	})
	if err == unix.EAGAIN {
		err = nil
	}
	return errors.Join(done, err)
}
